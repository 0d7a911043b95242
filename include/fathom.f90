! Marks regions and moments of a Fortran program for Fathom, as fathom.h does for C: compile this file with the program.
!
!   use fathom
!   call fathom_begin("solve");  ...  call fathom_end()
!   call fathom_mark("second phase");  call fathom_pause();  call fathom_resume()
!
! Without Fathom a call is a branch. What not: programs without dlopen (static ones).
! Licence: MIT or Apache-2.0, as Fathom.
module fathom
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: fathom_begin, fathom_end, fathom_mark, fathom_pause, fathom_resume

    abstract interface
        subroutine with_name(name) bind(c)
            import :: c_char
            character(kind=c_char), intent(in) :: name(*)
        end subroutine
        subroutine without_name() bind(c)
        end subroutine
    end interface

    interface
        function dlopen(path, mode) bind(c, name="dlopen") result(library)
            import :: c_char, c_int, c_ptr
            character(kind=c_char), intent(in) :: path(*)
            integer(c_int), value :: mode
            type(c_ptr) :: library
        end function
        function dlsym(library, name) bind(c, name="dlsym") result(address)
            import :: c_char, c_ptr, c_funptr
            type(c_ptr), value :: library
            character(kind=c_char), intent(in) :: name(*)
            type(c_funptr) :: address
        end function
    end interface

    procedure(with_name), pointer :: begin_hook => null(), mark_hook => null()
    procedure(without_name), pointer :: end_hook => null(), pause_hook => null(), resume_hook => null()
    logical, volatile :: is_known = .false.

contains

    ! Threads that come at once find the same.
    subroutine find()
        character(len=4096) :: path
        integer :: length, status
        type(c_ptr) :: library
        integer(c_int), parameter :: rtld_now = 2

        call get_environment_variable("FATHOM_REGIONS", path, length, status)
        if (status == 0 .and. length > 0) then
            library = dlopen(trim(path)//c_null_char, rtld_now)
            if (c_associated(library)) then
                call c_f_procpointer(dlsym(library, "fathom_hook_begin"//c_null_char), begin_hook)
                call c_f_procpointer(dlsym(library, "fathom_hook_end"//c_null_char), end_hook)
                call c_f_procpointer(dlsym(library, "fathom_hook_mark"//c_null_char), mark_hook)
                call c_f_procpointer(dlsym(library, "fathom_hook_pause"//c_null_char), pause_hook)
                call c_f_procpointer(dlsym(library, "fathom_hook_resume"//c_null_char), resume_hook)
            end if
        end if
        is_known = .true.
    end subroutine

    subroutine fathom_begin(name)
        character(len=*), intent(in) :: name
        if (.not. is_known) call find()
        if (associated(begin_hook)) call begin_hook(trim(name)//c_null_char)
    end subroutine

    subroutine fathom_end()
        if (.not. is_known) call find()
        if (associated(end_hook)) call end_hook()
    end subroutine

    subroutine fathom_mark(name)
        character(len=*), intent(in) :: name
        if (.not. is_known) call find()
        if (associated(mark_hook)) call mark_hook(trim(name)//c_null_char)
    end subroutine

    subroutine fathom_pause()
        if (.not. is_known) call find()
        if (associated(pause_hook)) call pause_hook()
    end subroutine

    subroutine fathom_resume()
        if (.not. is_known) call find()
        if (associated(resume_hook)) call resume_hook()
    end subroutine

end module fathom
