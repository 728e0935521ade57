c     Packs and unpacks by the Fortran interface.
      program packing
      include 'fpvm3.h'
      integer buf, info, i, n(3), m(3)
      double precision x(2), y(2)
      character*8 text
      call pvmfsetopt(PVMAUTOERR, 0, info)
      call pvmfinitsend(PVMDATADEFAULT, buf)
      if (buf .le. 0) stop 1
      do 10 i = 1, 3
   10 n(i) = i * i
      x(1) = 1.5d0
      x(2) = -2.5d0
      call pvmfpack(INTEGER4, n, 3, 1, info)
      call pvmfpack(REAL8, x, 2, 1, info)
      call pvmfpack(STRING, 'harbour ', 8, 1, info)
      if (info .ne. PvmOk) stop 2
      call pvmfsetrbuf(buf, info)
      call pvmfunpack(INTEGER4, m, 3, 1, info)
      call pvmfunpack(REAL8, y, 2, 1, info)
      call pvmfunpack(STRING, text, 8, 1, info)
      if (info .ne. PvmOk) stop 3
      if (m(3) .ne. 9 .or. y(2) .ne. -2.5d0) stop 4
      if (text .ne. 'harbour') stop 5
      call pvmfunpack(99, m, 1, 1, info)
      if (info .ne. PvmBadParam) stop 6
      call pvmfjoingroup('  ', info)
      if (info .ne. PvmNullGroup) stop 7
      print *, 'ok'
      end
